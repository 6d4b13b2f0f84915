"""What the audit says: checks and their faults, the list of all checks, levels and results, the HTML page. No numpy."""
