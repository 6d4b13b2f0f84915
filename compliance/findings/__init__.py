"""What the audit says: a check and its faults, levels and claims, the HTML page. No numpy."""
