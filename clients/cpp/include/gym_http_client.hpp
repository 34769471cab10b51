/// @file
/// A client of gym_http_server: Gymnasium's environments over HTTP.
///
/// Include `gym_http_client/stream.hpp` as well for streams, which are faster.
#ifndef GYM_HTTP_CLIENT_HPP
#define GYM_HTTP_CLIENT_HPP

#include "gym_http_client/client.hpp"
#include "gym_http_client/env.hpp"
#include "gym_http_client/real_time.hpp"
#include "gym_http_client/vector_env.hpp"

#endif
