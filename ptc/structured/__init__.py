"""Structured answers: a contract, its check, and the repair of damaged text without a model.

    contract = Contract(Invoice)
    recovered = recover(text, contract)      # None: ask again, do not guess

The face is lazy: a name is imported when it is first used.
"""
