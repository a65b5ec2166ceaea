"""Every error of what several kinds hold: pod specs, label selectors, resources, data.

`basics` is what the checks are made of, here and in the kinds' own files.
"""
