"""Fuzzing: what comes from outside, mutated, is read or refused with an error of jetspark.

- `corpus`: documents as servers send them.
- `mutate`: changes such a document.
- `targets`: what reads the documents, and which errors it may raise.
- `test_fuzz`: some thousand cases of each target, for every change.
- `__main__`: `make fuzz`, the same for minutes or hours.
"""
