#pragma once

#include <memory>

#include "base/log.h"
#include "base/result.h"
#include "loader/dataset/catalogue/open_shards.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/stores/file_stamp.h"

namespace isocost {

/// Stamps of the files of a shard that this process has checked whole; zeros: of none.
struct CheckedFiles {
  FileStamp index;
  FileStamp tokens;
};

/// Opens a shard in the state that its row was made of. Errors: those of OpenShards::open.
Result<std::shared_ptr<const Shard>> reopen_shard(const KnownShard& shard,
                                                  const CheckedFiles& checked, const LogSink& log);

}  // namespace isocost
