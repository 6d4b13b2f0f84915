"""What LoadGen computes, computed again from what it logged: no finding, no file."""
