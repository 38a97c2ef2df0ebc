"""Frame heads: what computes a whole codec frame inside one decode step, in plain torch and Triton."""
