"""MLPerf's compliance tests, TEST01, TEST04 and TEST06: judged here, and what is written of them."""
