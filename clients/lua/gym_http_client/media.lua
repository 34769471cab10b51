--- Media types of the forms that values have over HTTP.
-- @module gym_http_client.media
return {
  PLAIN = "application/json",
  TYPED = "application/vnd.gym-http.typed+json",
  BINARY = "application/vnd.gym-http.binary",
}
