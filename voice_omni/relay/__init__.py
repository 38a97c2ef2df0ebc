"""How tensors cross from one node to another: one-sided writes into buffers that the receiver has registered.

Inside one process nothing is copied and no relay is asked: the tree is handed over by reference. Between processes of
one host there is shared memory for arrays (:mod:`voice_omni.relay.shm`) and CUDA IPC for the tensors of a device
(:mod:`voice_omni.relay.cuda_ipc`); :mod:`voice_omni.relay.carrier` uses both for one message.
"""
