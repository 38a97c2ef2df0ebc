"""Written English to what is said: clauses, words and phonemes. Pure; knows nothing of models or of sound."""
