-- The same files run on all of them: what only some have is reached through
-- gym_http_client.platform.
std = "min"
max_line_length = 100
ignore = { "212/self" }
