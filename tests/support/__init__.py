"""What several tests share: run directories and jobs of the mock, spoilt ones, and stand-ins."""
