#include "model/decode/generation_rules.h"

bool tfm__generation_is_eos(const tfm__generation_rules *rules, int32_t id) {
    bool ends = id == rules->eos_id;
    for (int i = 0; i < rules->eos_id_count; i++)
        ends |= id == rules->eos_ids[i];
    return ends;
}

bool tfm__generation_is_pad(const tfm__generation_rules *rules, int32_t id) {
    const bool apart = id == rules->pad_id && id != rules->eos_id; /* some models pad with EOS */
    return apart && !rules->decoder_only && !rules->hf_search;
}

bool tfm__generation_is_banned(const tfm__generation_rules *rules, int32_t id) {
    bool banned = tfm__generation_is_pad(rules, id);
    for (int i = 0; i < rules->suppress_id_count; i++)
        banned |= id == rules->suppress_ids[i];
    return banned;
}

/* The token `back` places before the last of `ids`; -1: none. */
static int32_t before(const tfm__generation_rules *rules, const int32_t *ids, size_t count, size_t back) {
    if (back < count)
        return ids[count - 1 - back];
    const bool first = rules->forced_bos_id >= 0;
    if (back == count && first)
        return rules->forced_bos_id;
    return back == count + first ? rules->start_id : -1;
}

bool tfm__generation_completes_bad_word(const tfm__generation_rules *rules, const int32_t *ids, size_t count) {
    for (int i = 0; i < rules->bad_word_count; i++) {
        const int *word = rules->bad_word_ids + rules->bad_words[i];
        const size_t length = (size_t)(rules->bad_words[i + 1] - rules->bad_words[i]);
        size_t same = 0;
        while (same < length && word[length - 1 - same] == before(rules, ids, count, same))
            same++;
        if (same == length)
            return true;
    }
    return false;
}
