"""Who the peers of a task are, as each runtime wants to be told. Pure: values in, text out.

`peers` says where everybody is; a file for each runtime says how that runtime spells it; `environment` picks what a
Framework has asked for; `files` is what the barrier writes once it knows the addresses.
"""
