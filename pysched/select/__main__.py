import sys

from pysched.select.main import main

sys.exit(main())
