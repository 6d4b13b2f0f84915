import sys

from harness.cli import main

sys.exit(main(sys.argv[1:]))
