"""`python -m jetspark.shipper.demo`."""

from __future__ import annotations

import sys

from jetspark.shipper.demo.main import main

sys.exit(main())
