/* Models in Marian's own format: an .npz or .bin file with its configuration inside, without config.json. */
#ifndef TFM_LIB_MARIAN_NMT_H
#define TFM_LIB_MARIAN_NMT_H

#include "model/arch/family.h"
#include "text/marian_folder.h"

/* Opens the model in the folder and reads its arch and rules. An unsupported feature is TFM_ERROR_UNSUPPORTED with its
 * key. */
tfm_status tfm__marian_nmt_read(const tfm__family **family, tfm__arch *arch, tfm__generation_rules *rules,
                                tfm__family_files *files, const tfm__marian_folder *found);

#endif
