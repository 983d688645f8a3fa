"""The judge of evidence: ranking of passages, support of claims, calibration of scores."""
