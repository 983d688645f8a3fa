"""Processes for tests, forked from one that has loaded torch and the trainers already."""

import multiprocessing

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "rookery.desk.stop_switch",
        "rookery.learn.imitation_learning",
        "rookery.learn.online_labelling",
        "rookery.learn.retrieval_training",
    ]
)
