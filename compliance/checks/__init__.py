"""One file for a family of rules: what was read of one result folder in, findings out. No family imports another."""
