"""Which template a first attempt pins: what the claim asks, of reminder `r` and its delivery `n` if there is one."""

from __future__ import annotations

# In which language a recipient is written to.
_LOCALE = "(SELECT u.locale FROM {s}.recipients u WHERE u.tenant_id = r.tenant_id AND u.user_id = r.user_id)"

# The tenant's own goes before the installation's, a longer locale before a shorter one: `zh-hant-tw`, `zh-hant`, `zh`, and
# last the one without a locale. Six keys of `active_templates` at most, and none for a channel without templates.
CHOSEN = f"""CASE WHEN n.template_id IS NULL AND r.channel = ANY(:templated) THEN (
        SELECT a.template_id
        FROM (SELECT lower(replace({_LOCALE}, '_', '-')) AS locale) said
        JOIN {{s}}.active_templates a ON a.tenant_id = ANY(ARRAY[r.tenant_id, '']) AND a.kind = r.kind AND a.channel = r.channel
             AND a.locale = ANY(ARRAY['', said.locale, split_part(said.locale, '-', 1),
                                      split_part(said.locale, '-', 1) || '-' || split_part(said.locale, '-', 2)])
        ORDER BY a.tenant_id = '', length(a.locale) DESC
        LIMIT 1) END"""
