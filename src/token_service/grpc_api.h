#pragma once

#include "models.h"

#include "base/clock.h"
#include "grpc/server.h"

#include <vector>

namespace llmd::token_service {

/// The methods of tokenization.TokenizationService: Tokenize, InitializeTokenizer, RenderCompletion
/// and RenderChatCompletion. What cannot be tokenized is an answer without success.
std::vector<grpc::Method> grpc_methods(const Models& models, Nanos timeout);

}  // namespace llmd::token_service
