"""What `ahvn-tools check` prints: the report, where each finding is, and SARIF."""
