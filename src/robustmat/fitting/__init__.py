"""What is fitted on held-out data: thresholds, calibration, competition."""
