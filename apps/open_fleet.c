/* The devices that a command works on. */
#include "cli.h"

tfm_status cli_open_fleet(tfm_fleet **out, const char *devices, int workers) {
    return tfm_fleet_open(out, &(tfm_fleet_options){.devices = devices, .workers = workers, .on_build = cli_building});
}

double cli_build_seconds(const tfm_fleet *fleet) {
    double most = 0;
    const tfm_fleet_member *member;
    for (size_t i = 0; (member = tfm_fleet_get_member(fleet, i)); i++) {
        const double seconds = tfm_context_build_seconds(member->context);
        most = seconds > most ? seconds : most;
    }
    return most;
}
