"""Programs to run by hand: are the statistics right, and what do large audits and reports cost?"""
