"""The report on finished runs: `content` says what is in it, `figures` draws, `details` explains a cell, `page` and `exports` write it."""
