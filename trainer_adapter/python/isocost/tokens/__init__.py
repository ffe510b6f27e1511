"""Token ids of a data set: conversations, chat templates, tokenizers, and the pass that writes them."""
