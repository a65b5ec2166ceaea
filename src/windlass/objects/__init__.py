"""What the controller creates: from a Framework and its stored status to the manifests of its objects.

Pure functions from values to manifests. No I/O, and no decisions: *that* an object is wanted was decided before, and
stored; here stands only what it looks like.

A manifest shares what it can with the pod template that it was made from. Neither is ever changed in place.
"""
