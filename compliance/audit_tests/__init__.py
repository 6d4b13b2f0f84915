"""MLPerf's compliance tests. `test01`, `test04` and `test06` judge one test each; `common` judges
what all of them must satisfy.
"""
