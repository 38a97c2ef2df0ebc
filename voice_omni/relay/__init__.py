"""How tensors cross from one node to another: one-sided writes into buffers that the receiver has registered.

Inside one process nothing is copied and no relay is asked: the tree is handed over by reference. Between processes of
one host there is shared memory (:mod:`voice_omni.relay.shm`).
"""
