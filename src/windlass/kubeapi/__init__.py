"""The Kubernetes API as its clients see it: requests as values, answers, list+watch, and the one HTTP client file.

It decides nothing. What is asked and why is the business of `operate`, `client` and `barrier`.
"""
