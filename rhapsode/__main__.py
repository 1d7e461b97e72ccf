"""`python -m rhapsode`: the command line."""

from rhapsode.cli import main

raise SystemExit(main())
