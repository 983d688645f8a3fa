"""The exit codes of the command line, and the failures that count as wrong use."""

EXIT_ANSWERED = 0
EXIT_USAGE = 2
EXIT_DECLINED = 3
EXIT_NO_EVIDENCE = 4
"""nothing could be searched or opened, or a file holds no quote that could be checked; the reasons
are on standard error"""
EXIT_UNVERIFIED = 5
"""a quote is not what it claims to be, or an answer's text not what its method writes"""
EXIT_NO_ANSWER = 6
"""a model could not be asked, or said nothing that can be shown; the reasons are told"""
EXIT_STOPPED = 7
"""the cord of a training run was pulled"""
# Ctrl-C gives 130 and a request to end 143, as they do everywhere.

USER_ERROR_OUTCOMES = frozenset(
    "not_found unreadable unknown_engine invalid_url unsupported_scheme".split()
    + "no_model bad_endpoint no_key no_openai no_torch bad_model no_device".split()
    + "no_package bad_name name_taken not_added not_on_hub".split()
    + "no_folder bad_pattern not_indexed bad_contact not_a_recording".split()
    + "no_calibration bad_calibration not_usable no_labels unwritable".split()
    + "sharded no_cluster not_installed".split()
)
"""outcomes that are wrong use, and not a world that did not answer"""
