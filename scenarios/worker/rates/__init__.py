"""How many requests a second, or at once, a SUT can answer."""
