"""What measurements of Qwen3-Omni at full size share: random weights, people who talk, floors, and a GPU's state."""
