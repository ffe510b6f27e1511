#include "transport/wire/internal/control_messages.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/load.h"
#include "transport/wire/internal/message_fields.h"
#include "transport/wire/wire.h"

namespace isocost {

MessageType put(ByteWriter& out, const Credit& credit) {
  out.put(credit.microbatches);
  out.put(credit.session);
  return MessageType::kCredit;
}

Credit get_credit(ByteReader& in) {
  const auto microbatches = in.get<std::uint32_t>();
  if (microbatches == 0 || microbatches > kMaxCredit) in.fail();
  return {microbatches, in.get<std::uint64_t>()};
}

MessageType put(ByteWriter& out, const Acknowledgement& acknowledgement) {
  put_position(out, acknowledgement.position);
  return MessageType::kAcknowledgement;
}

Acknowledgement get_acknowledgement(ByteReader& in) { return {get_position(in)}; }

MessageType put(ByteWriter& out, const Report& report) {
  put_position(out, report.position);
  out.put(report.forward_s);
  out.put(report.data_wait_s);
  out.put(report.measuring_s);
  out.put(static_cast<std::uint8_t>(kModules));
  for (std::size_t i = 0; i < kModules; ++i) {
    out.put_text<std::uint8_t>(module_name(static_cast<CostModule>(i)));
    out.put(report.seconds.at(i));
  }
  return MessageType::kReport;
}

// Reads seconds without a check, since the cost model refuses and counts impossible ones.
Report get_report(ByteReader& in) {
  Report report;
  report.position = get_position(in);
  report.forward_s = in.get<double>();
  report.data_wait_s = in.get<double>();
  report.measuring_s = in.get<double>();
  const auto count = in.get<std::uint8_t>();
  for (std::size_t i = 0; in.ok() && i < count; ++i) {
    const auto module = module_from_name(get_name(in));
    const auto seconds = in.get<double>();
    if (module) report.seconds.at(static_cast<std::size_t>(*module)) = seconds;
  }
  return report;
}

MessageType put(ByteWriter& out, const ProfileUpdate& profile_update) {
  out.put_text<std::uint32_t>(std::string_view(profile_update.profile).substr(0, kMaxProfileBytes));
  out.put(profile_update.took_s);
  out.put_text<std::uint32_t>(std::string_view(profile_update.failure).substr(0, kMaxTextBytes));
  put_position(out, profile_update.asked);
  return MessageType::kProfileUpdate;
}

ProfileUpdate get_profile_update(ByteReader& in) {
  ProfileUpdate update;
  update.profile = in.get_text<std::uint32_t>(kMaxProfileBytes);
  update.took_s = in.get<double>();
  update.failure = in.get_text<std::uint32_t>(kMaxTextBytes);
  update.asked = get_position(in);
  if (!std::isfinite(update.took_s) || update.took_s < 0) in.fail();
  return update;
}

MessageType put(ByteWriter& out, const EpochEnd& end) {
  out.put(end.epoch);
  out.put(end.steps);
  out.put(end.planned);
  out.put(end.bad);
  out.put(end.dropped);
  out.put(static_cast<std::uint8_t>(end.last_epoch));
  return MessageType::kEpochEnd;
}

EpochEnd get_epoch_end(ByteReader& in) {
  EpochEnd end;
  end.epoch = in.get<std::uint32_t>();
  end.steps = in.get<std::uint32_t>();
  end.planned = in.get<std::uint64_t>();
  end.bad = in.get<std::uint64_t>();
  end.dropped = in.get<std::uint64_t>();
  end.last_epoch = in.get<std::uint8_t>() != 0;
  return end;
}

MessageType put(ByteWriter& out, const Failure& failure) {
  put_error(out, failure);
  out.put(static_cast<std::uint8_t>(failure.has_resume_point));
  put_position(out, failure.resume_point);
  return MessageType::kFailure;
}

Failure get_failure(ByteReader& in) {
  auto failure = get_error<Failure>(in);
  failure.has_resume_point = in.get<std::uint8_t>() != 0;
  failure.resume_point = get_position(in);
  return failure;
}

MessageType put(ByteWriter& out, const Notice& notice) {
  put_printable(out, notice.text);
  return MessageType::kNotice;
}

Notice get_notice(ByteReader& in) { return {get_printable(in)}; }

MessageType put(ByteWriter& out, const AttachMemory& attach) {
  out.put_bytes(attach.token);
  return MessageType::kAttachMemory;
}

AttachMemory get_attach_memory(ByteReader& in) {
  AttachMemory attach;
  in.get_bytes(attach.token);
  return attach;
}

MessageType put(ByteWriter& out, const ReleaseBlocks& release) {
  const auto count = std::min(release.blocks.size(), kMaxReleasedBlocks);
  out.put(static_cast<std::uint16_t>(count));
  for (std::size_t i = 0; i < count; ++i) out.put(release.blocks[i]);
  return MessageType::kReleaseBlocks;
}

ReleaseBlocks get_release_blocks(ByteReader& in) {
  ReleaseBlocks release;
  const auto count = in.get<std::uint16_t>();
  if (count > kMaxReleasedBlocks) in.fail();
  for (std::size_t i = 0; in.ok() && i < count; ++i) {
    release.blocks.push_back(in.get<std::uint64_t>());
  }
  return release;
}

MessageType put(ByteWriter& out, const PassBlock& pass) {
  out.put(pass.block);
  return MessageType::kPassBlock;
}

PassBlock get_pass_block(ByteReader& in) { return {in.get<std::uint64_t>()}; }

MessageType put(ByteWriter& out, const DropBlock& drop) {
  out.put(drop.block);
  return MessageType::kDropBlock;
}

DropBlock get_drop_block(ByteReader& in) { return {in.get<std::uint64_t>()}; }

}  // namespace isocost
