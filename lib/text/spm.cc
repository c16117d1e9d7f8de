#include <pthread.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>
#include "text/spm.h"

/* SentencePiece's log level for stderr. It is not in the installed headers, nor in every build: weak, so that the
 * library links without it. */
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

/* Silences SentencePiece, since a library must not write to stderr: errors are returned as a status. The level is
 * global for all threads: the first user saves it, the last one restores it. SentencePiece reads it without a lock, as
 * it does for any writer. */
class Quiet {
  public:
    Quiet() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (known() && users_++ == 0) {
            level_ = sentencepiece::logging::GetMinLogLevel();
            sentencepiece::logging::SetMinLogLevel(INT_MAX);
        }
    }
    ~Quiet() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (known() && --users_ == 0)
            sentencepiece::logging::SetMinLogLevel(level_);
    }

    static bool known() {
        return sentencepiece::logging::GetMinLogLevel && sentencepiece::logging::SetMinLogLevel;
    }

  private:
    static std::mutex mutex_;
    static int users_, level_;
};

std::mutex Quiet::mutex_;
int Quiet::users_, Quiet::level_;

tfm_status out_of_memory() {
    return tfm__fail(TFM_ERROR_MEMORY, "out of host memory in SentencePiece");
}

tfm_status store_pieces(tfm__pieces *out, const std::vector<std::string> &pieces) {
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

/* The training text of SentencePiece. */
class Sentences : public sentencepiece::SentenceIterator {
  public:
    Sentences(tfm__spm_next_fn next, void *user) : next_(next), user_(user) {
        Next();
    }
    bool done() const override {
        return done_;
    }
    void Next() override {
        const char *text = nullptr;
        size_t bytes = 0;
        failed_ = next_(user_, &text, &bytes);
        done_ = failed_ != TFM_OK || !text;
        if (!done_)
            value_.assign(text, bytes);
    }
    const std::string &value() const override {
        return value_;
    }
    sentencepiece::util::Status status() const override {
        return failed_ == TFM_OK ? sentencepiece::util::Status()
                                 : sentencepiece::util::Status(sentencepiece::util::StatusCode::kInternal, "");
    }
    tfm_status failed() const {
        return failed_;
    }

  private:
    tfm__spm_next_fn next_;
    void *user_;
    std::string value_;
    tfm_status failed_ = TFM_OK;
    bool done_ = false;
};

std::unordered_map<std::string, std::string> arguments(const tfm__spm_train_options &options) {
    /* Millionths, written independently of the locale's decimal comma. */
    const long millionths = std::lround(options.coverage * 1e6);
    char coverage[64];
    std::snprintf(coverage, sizeof(coverage), "%ld.%06ld", millionths / 1000000, millionths % 1000000);
    std::unordered_map<std::string, std::string> all = {
        {"model_type", options.unigram ? "unigram" : "bpe"},
        {"vocab_size", std::to_string(options.size)},
        {"hard_vocab_limit", options.unigram || options.soft_limit ? "false" : "true"},
        {"character_coverage", coverage},
        {"normalization_rule_name", options.normalization},
        {"train_extremely_large_corpus", options.large ? "true" : "false"},
        {"max_sentence_length", std::to_string(TFM__SPM_MAX_SENTENCE)},
        {"eos_id", options.has_bos ? "2" : "0"},
        {"unk_id", options.has_bos ? "0" : "1"},
        {"bos_id", options.has_bos ? "1" : "-1"},
        {"pad_id", "-1"},
        /* The result depends on the number of threads: sums are per thread. */
        {"num_threads", "4"},
    };
    if (!Quiet::known()) /* it would set the global log level without Quiet's lock */
        all["minloglevel"] = "4";
    return all;
}

/* Translates SentencePiece's error to one with advice. */
tfm_status training_error(const char *said, const tfm__spm_train_options &options, const char *name) {
    int asked, there;
    const char *high = std::strstr(said, "Vocabulary size too high"), *low = std::strstr(said, "required_chars. ");
    if (high && std::sscanf(high, "Vocabulary size too high (%d). Please set it to a value <= %d", &asked, &there) == 2)
        return tfm__fail(TFM_ERROR_INPUT,
                         "%s: %d pieces are more than the text yields, which is %d; use at most %d, or more text", name,
                         options.size, there, there);
    if (low && std::sscanf(low, "required_chars. %d vs %d", &asked, &there) == 2) {
        if (options.characters)
            *options.characters = there;
        return tfm__fail(TFM_ERROR_INPUT,
                         "%s: %d pieces are too few, its characters alone need %d; use more, or a "
                         "coverage below %g",
                         name, options.size, there, options.coverage);
    }
    std::string line = said;
    for (char &c : line)
        c = c == '\n' ? ' ' : c;
    return tfm__fail(TFM_ERROR_INPUT, "%s: SentencePiece training failed: %s", name, line.c_str());
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
        auto spm = std::make_unique<tfm__spm>();
        const auto loaded = spm->processor.LoadFromSerializedProto({static_cast<const char *>(bytes), size});
        if (!loaded.ok()) {
            tfm__fail(TFM_ERROR_FORMAT, "%s is not a SentencePiece model, or is damaged: %s", path,
                      loaded.error_message());
            return TFM_ERROR_FORMAT;
        }
        *out = spm.release();
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

namespace {
pthread_mutex_t sampling_lock_ = PTHREAD_MUTEX_INITIALIZER; /* std::mutex may throw */
} // namespace

tfm_status tfm__spm_sample(const tfm__spm *spm, tfm__pieces *out, const char *text, size_t bytes, float alpha) {
    const int any = -1; /* all segmentations, not only the n best */
    out->count = 0;
    try {
        std::vector<std::string> pieces;
        /* Word and character models have one segmentation: SampleEncode rejects them. */
        if (alpha > 0 && spm->processor.SampleEncode({text, bytes}, any, alpha, &pieces).ok())
            return store_pieces(out, pieces);
        const auto done = spm->processor.Encode({text, bytes}, &pieces);
        if (!done.ok())
            return tfm__fail(TFM_ERROR_INPUT, "SentencePiece cannot split the line: %s", done.error_message());
        return store_pieces(out, pieces);
    } catch (const std::bad_alloc &) {
        return out_of_memory();
    } catch (...) {
        return tfm__fail(TFM_ERROR_INPUT, "SentencePiece cannot split the line");
    }
}

tfm_status tfm__spm_encode(const tfm__spm *spm, tfm__pieces *out, const char *text, size_t bytes) {
    return tfm__spm_sample(spm, out, text, bytes, 0);
}

void tfm__spm_sampling_begin(uint64_t seed) {
    pthread_mutex_lock(&sampling_lock_);
    const unsigned int folded = static_cast<unsigned int>(seed ^ seed >> 32);
    sentencepiece::SetRandomGeneratorSeed(folded == UINT_MAX ? 0 : folded); /* UINT_MAX means a random seed */
}

void tfm__spm_sampling_end() {
    pthread_mutex_unlock(&sampling_lock_);
}

tfm_status tfm__spm_decode(const tfm__spm *spm, char **out, const char *const *pieces, size_t count) {
    *out = nullptr;
    try {
        std::string text;
        const auto done = spm->processor.Decode(std::vector<std::string>(pieces, pieces + count), &text);
        if (!done.ok())
            return tfm__fail(TFM_ERROR_INPUT, "SentencePiece cannot join the pieces: %s", done.error_message());
        *out = tfm__strdup(text.c_str());
        return *out ? TFM_OK : TFM_ERROR_MEMORY;
    } catch (const std::bad_alloc &) {
        return out_of_memory();
    } catch (...) {
        return tfm__fail(TFM_ERROR_INPUT, "SentencePiece cannot join the pieces");
    }
}

size_t tfm__spm_size(const tfm__spm *spm) {
    return static_cast<size_t>(spm->processor.GetPieceSize());
}

const char *tfm__spm_piece(const tfm__spm *spm, size_t id) {
    return spm->processor.IdToPiece(static_cast<int>(id)).c_str();
}

float tfm__spm_score(const tfm__spm *spm, size_t id) {
    return spm->processor.GetScore(static_cast<int>(id));
}

tfm_status tfm__spm_train(char **out, size_t *out_bytes, const tfm__spm_train_options *options, tfm__spm_next_fn next,
                          void *user, const char *name) {
    *out = nullptr;
    *out_bytes = 0;
    try {
        Quiet quiet;
        Sentences sentences(next, user);
        std::string model;
        const auto done = sentencepiece::SentencePieceTrainer::Train(arguments(*options), &sentences, &model);
        if (sentences.failed() != TFM_OK)
            return sentences.failed();
        if (!done.ok())
            return training_error(done.error_message(), *options, name);
        *out = static_cast<char *>(tfm__alloc(model.size(), 1));
        if (!*out)
            return TFM_ERROR_MEMORY;
        std::memcpy(*out, model.data(), model.size());
        *out_bytes = model.size();
        return TFM_OK;
    } catch (const std::bad_alloc &) {
        return out_of_memory();
    } catch (const std::exception &e) {
        return tfm__fail(TFM_ERROR_INPUT, "%s: SentencePiece training failed: %s", name, e.what());
    } catch (...) {
        return tfm__fail(TFM_ERROR_INPUT, "%s: SentencePiece training failed", name);
    }
}
