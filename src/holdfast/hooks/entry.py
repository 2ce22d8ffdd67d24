"""The file that a client runs: ``python -I -S entry.py``, the quickest way to start.

It is compiled anew each time, so it holds nothing but the way to the rest.
"""

import gc
import os
import sys

if __name__ == "__main__":
    # The process ends before there is anything to collect.
    gc.disable()
    # Without the site's packages: those of Holdfast are two folders above.
    sys.path.insert(0, __file__.rpartition("/holdfast/hooks/")[0])
    from holdfast.hooks.quick_check import main

    # Nothing is closed: the ledger's journal has to stay for readers that cannot write there.
    os._exit(main())
