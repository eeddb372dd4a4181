# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The faults, sourced by run.sh; those of one file follow each other, so that each costs one compilation.
#   mutate TITLE FILE SED_EXPRESSION   changes one line of the copy, all else as it was, and builds
#   noticed_by_reference FOLDER RANKS [key=value ...]   `minisp verify --reference` must find the numbers wrong
#   noticed_by_run REGEX RANKS [key=value ...]          `minisp run` must call itself INVALID for that reason

mutate 'gradients larger by the sequence degree' src/train/trainer.cpp \
  's/store_, scale);/store_, scale * mesh_.plan().sequence_degree);/'
noticed_by_reference gpt2 4 parallel.system=ulysses
noticed_by_run 'gradients against one rank' 4 parallel.system=basp train.batch=2

mutate "the loss over one rank's number of valid tokens" src/train/trainer.cpp \
  's/return comm::sum(mesh_.world(), valid);/return valid * mesh_.world().size();/'
noticed_by_reference llama-untied-packed 4 parallel.system=data-parallel
noticed_by_run "scalars in phase 'token count'" 4

mutate 'clipping by the norm of one part of the gradient' src/math/sum_of_squares.cpp \
  's/total += sums(i);/total = sums(i);/'
noticed_by_reference gpt2 1

mutate 'AdamW without the correction of its first steps' src/train/optimizer.cpp \
  's|rate_ / (1 - std::pow(train_.beta1, t))|rate_|'
noticed_by_reference gpt2 1

mutate 'gradients summed over the group in place of all ranks' src/parallel/parameter_store.cpp \
  's/all_reduce_sum(mesh_.world(), exec, whole)/all_reduce_sum(mesh_.sequence(), exec, whole)/'
noticed_by_reference qwen2-bias 4 parallel.system=basp
noticed_by_run "all_reduce_sum in phase 'reduce gradients' over 'sequence'" 4 parallel.system=basp train.batch=2
noticed_by_run 'ranks with other weights' 4 parallel.system=basp train.batch=2

mutate 'labels that stop at the edge of a shard' src/parallel/batch_partition.cpp \
  's/row\[p + 1\])/row[p + 1 < static_cast<std::size_t>(shard.end) ? p + 1 : p])/'
noticed_by_reference llama-gqa-scaled-rope 2 parallel.system=ulysses
noticed_by_run 'loss against one rank' 4 parallel.system=ulysses

mutate 'positions off by one in every shard but the first' src/parallel/batch_partition.cpp \
  's/static_cast<std::int32_t>(p) - out.document_starts\[s\]\[p\]/& - (shard.begin > 0 ? 1 : 0)/'
noticed_by_reference llama-gqa-scaled-rope 2 parallel.system=ulysses
noticed_by_run 'gradients against one rank' 4 parallel.system=ulysses

mutate 'the ranks of a group in another order than their tokens' src/parallel/mesh.cpp \
  's/plan_.place_of(world.rank()), "sequence"/-plan_.place_of(world.rank()), "sequence"/'
noticed_by_reference qwen3-qk-norm 4 parallel.system=ulysses
noticed_by_run 'loss against one rank' 4 parallel.system=ulysses

mutate 'a causal mask that shows the next token' src/parallel/ulysses_attend.cpp \
  's/static_cast<int>(i) + 1;/static_cast<int>(i) + (p + 1 < row_of_[s].size() ? 2 : 1);/'
noticed_by_reference gpt2 1
noticed_by_run 'tokens that see a later one' 4 parallel.system=ulysses

mutate 'documents that see each other' src/parallel/ulysses_attend.cpp \
  's/first + starts\[s\].at(p);/first;/'
noticed_by_reference llama-untied-packed 2 parallel.system=ulysses

mutate 'the exchange over all ranks in place of the group' src/parallel/ulysses_attend.cpp \
  's/all_to_all(mesh_.sequence(), exec/all_to_all(mesh_.world(), exec/'
noticed_by_run "all_to_all in phase 'exchange_qkv forward' over 'world'" 4 parallel.system=basp train.batch=2

mutate 'two query heads swapped on their way' src/model/rope.cpp \
  's/HeadKind::query, head \/ q_heads, 1, head % q_heads/HeadKind::query, head \/ q_heads, 1, (head % q_heads) ^ 1/'
noticed_by_reference gpt2 2 parallel.system=ulysses
noticed_by_run 'loss against one rank' 4 parallel.system=ulysses

mutate 'of copied K/V heads the gradient of the first copy alone' src/model/rope.cpp \
  's/if (copies == 1) return first;/return first;/'
noticed_by_reference qwen2-bias 4 parallel.system=basp
noticed_by_run 'gradients against one rank' 4 parallel.system=ulysses model.kv_heads=2

mutate 'rotary frequencies that are not scaled' src/model/rope.cpp \
  's|(1 - blend) / scaling->factor + blend|1|'
noticed_by_reference llama-gqa-scaled-rope 1

mutate 'of a tied table the gradient of the head alone' src/model/transformer.cpp \
  's/embedding_backward<T>(exec, token_index, workspace.gradient, gradients.embedding);//'
noticed_by_reference qwen2-bias 1

mutate 'the gradient of a unit that the next micro-step adds to again' src/parallel/parameter_store.cpp \
  's/Kokkos::deep_copy(exec, whole, Sum(0));/;/'
noticed_by_run 'gradients against one rank' 4 parallel.sharding=zero2 train.accumulation=2

mutate 'a dropout mask by the row of the rank' src/model/dropout.cpp \
  's/(first_token + tokens(r)) \* blocks/(first_token + r) * blocks/'
noticed_by_run 'loss against one rank' 4 train.dropout=0.1 parallel.system=ulysses

mutate 'the next block used before it has arrived' src/parallel/parameter_store.cpp \
  's/pending_\[slot\].wait();/;/'
noticed_by_run 'gradients against one rank' 4 parallel.sharding=zero3
