import sys

from pysched.agent.main import main

sys.exit(main())
