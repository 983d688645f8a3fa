"""WebGPT's text browser: commands, views, rollouts, and its faces for other trainers."""
