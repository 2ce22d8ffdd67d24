"""The file that a client runs: ``python -I -S entry.py``, the fastest way to start.

Python compiles this file at every start, so it only calls ``quick_check``, or with the argument
``statusline`` the module of that name.
"""

import gc
import os
import sys

if __name__ == "__main__":
    # The process ends before there is anything to collect.
    gc.disable()
    # There are no site packages (-S): the folder of the package is two levels up.
    sys.path.insert(0, __file__.rpartition("/holdfast/hooks/")[0])
    # Close nothing: the ledger's journal must stay for readers that cannot write there.
    if len(sys.argv) > 1 and sys.argv[1] == "statusline":
        from holdfast.hooks import statusline

        os._exit(statusline.main(sys.argv[2:]))
    from holdfast.hooks.quick_check import main

    os._exit(main())
