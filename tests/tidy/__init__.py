"""The rules of the house, kept by tests that read the source tree.

Each rule is a function from sources to breaches. With each stands a test that shows it a small
offence and expects an objection, so that no rule can fall silent unnoticed.
"""
