# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The self-test of a script that lists the faults of a repository.
import pathlib
import tempfile


def misjudged(faults, good, bad, alone=False):
    """Returns how many trees `faults(root)` misjudges. `good`: a tree without a fault, texts by path. `bad`: for each (fault, path, text) the good
    tree with this file, in which the fault is found, `alone`: and no other."""
    wrong = 0
    for expected, *change in [("",), *bad]:
        with tempfile.TemporaryDirectory() as work:
            for name, text in {**good, **dict([change] if change else [])}.items():
                path = pathlib.Path(work, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            found = list(faults(pathlib.Path(work)))
        if (any(expected in fault for fault in found) and (len(found) == 1 or not alone)) if change else not found:
            continue
        wrong += 1
        print(f"expected \"{expected or 'no fault'}\", found {found}")
    print(f"{len(bad) + 1 - wrong} of {len(bad) + 1} trees judged correctly")
    return wrong
