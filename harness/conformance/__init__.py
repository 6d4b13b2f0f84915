"""What released frameworks compute differently: the cases, how they are run, and the table."""
