#include <sentencepiece_processor.h>
#include <climits>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>
#include "text/spm.h"

/* SentencePiece's own switch for what it prints to stderr. Not in its installed headers, and not in every
 * build of it: weak, so that a library without it still links. */
namespace sentencepiece {
namespace logging {
int GetMinLogLevel() __attribute__((weak));
void SetMinLogLevel(int level) __attribute__((weak));
} // namespace logging
} // namespace sentencepiece

struct tfm__spm {
    sentencepiece::SentencePieceProcessor processor;
};

namespace {

/* A library must not write to its host's stderr: what goes wrong comes back as a status. Above the level of
 * errors. */
class Quiet {
  public:
    Quiet() : known_(sentencepiece::logging::GetMinLogLevel && sentencepiece::logging::SetMinLogLevel) {
        if (known_) {
            level_ = sentencepiece::logging::GetMinLogLevel();
            sentencepiece::logging::SetMinLogLevel(INT_MAX);
        }
    }
    ~Quiet() {
        if (known_)
            sentencepiece::logging::SetMinLogLevel(level_);
    }

  private:
    bool known_;
    int level_ = 0;
};

tfm_status out_of_memory() {
    return tfm__fail(TFM_ERROR_MEMORY, "out of host memory in SentencePiece");
}

tfm_status keep(tfm__pieces *out, const std::vector<std::string> &pieces) {
    size_t bytes = 0;
    for (const std::string &piece : pieces)
        bytes += piece.size() + 1;
    if (bytes > out->byte_capacity) {
        void *larger = tfm__realloc(out->bytes, bytes, 1);
        if (!larger)
            return TFM_ERROR_MEMORY;
        out->bytes = static_cast<char *>(larger);
        out->byte_capacity = bytes;
    }
    if (pieces.size() > out->capacity) {
        void *larger = tfm__realloc(out->starts, pieces.size(), sizeof(*out->starts));
        if (!larger)
            return TFM_ERROR_MEMORY;
        out->starts = static_cast<size_t *>(larger);
        out->capacity = pieces.size();
    }
    size_t used = 0;
    for (size_t i = 0; i < pieces.size(); i++) {
        out->starts[i] = used;
        std::memcpy(out->bytes + used, pieces[i].c_str(), pieces[i].size() + 1);
        used += pieces[i].size() + 1;
    }
    out->count = pieces.size();
    return TFM_OK;
}

} // namespace

void tfm__pieces_free(tfm__pieces *pieces) {
    free(pieces->bytes);
    free(pieces->starts);
    *pieces = tfm__pieces();
}

tfm_status tfm__spm_open(tfm__spm **out, const void *bytes, size_t size, const char *path) {
    *out = nullptr;
    tfm_status status = tfm__spm_check(bytes, size, path);
    if (status != TFM_OK)
        return status;
    try {
        Quiet quiet;
        tfm__spm *spm = new tfm__spm;
        const auto loaded = spm->processor.LoadFromSerializedProto({static_cast<const char *>(bytes), size});
        if (!loaded.ok()) {
            tfm__fail(TFM_ERROR_FORMAT, "%s is not a SentencePiece model, or is damaged: %s", path,
                      loaded.error_message());
            delete spm;
            return TFM_ERROR_FORMAT;
        }
        *out = spm;
        return TFM_OK;
    } catch (const std::bad_alloc &) {
        return out_of_memory();
    } catch (const std::exception &e) {
        return tfm__fail(TFM_ERROR_FORMAT, "%s is a damaged SentencePiece model: %s", path, e.what());
    } catch (...) {
        return tfm__fail(TFM_ERROR_FORMAT, "%s is a damaged SentencePiece model", path);
    }
}

void tfm__spm_free(tfm__spm **spm) {
    if (spm) {
        delete *spm;
        *spm = nullptr;
    }
}

tfm_status tfm__spm_encode(const tfm__spm *spm, tfm__pieces *out, const char *text, size_t bytes) {
    out->count = 0;
    try {
        std::vector<std::string> pieces;
        const auto done = spm->processor.Encode({text, bytes}, &pieces);
        if (!done.ok())
            return tfm__fail(TFM_ERROR_INPUT, "SentencePiece cannot split the line: %s",
                             done.error_message());
        return keep(out, pieces);
    } catch (const std::bad_alloc &) {
        return out_of_memory();
    } catch (...) {
        return tfm__fail(TFM_ERROR_INPUT, "SentencePiece cannot split the line");
    }
}

tfm_status tfm__spm_decode(const tfm__spm *spm, char **out, const char *const *pieces, size_t count) {
    *out = nullptr;
    try {
        std::string text;
        const auto done = spm->processor.Decode(std::vector<std::string>(pieces, pieces + count), &text);
        if (!done.ok())
            return tfm__fail(TFM_ERROR_INPUT, "SentencePiece cannot join the pieces: %s",
                             done.error_message());
        *out = tfm__strdup(text.c_str());
        return *out ? TFM_OK : TFM_ERROR_MEMORY;
    } catch (const std::bad_alloc &) {
        return out_of_memory();
    } catch (...) {
        return tfm__fail(TFM_ERROR_INPUT, "SentencePiece cannot join the pieces");
    }
}
