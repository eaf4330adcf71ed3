/** The operator's catalogue, by id: never commands, addresses or keys. */

import { z } from "zod";
import {
  CATALOGUE_LISTS,
  CATALOGUE_TABLES,
  type CatalogueList,
  type CatalogueTable,
} from "../../config/check/catalogue_tables.ts";
import { ANY_KEYS, nextCursor, PagedList } from "../http/page.ts";
import { json, type Route, route } from "../routing/route.ts";

const ENTRY = "An entry of the server's catalogue; its id is all that a request may say of it.";

/** The route with the entries of a list. */
function routeOf(list: CatalogueList): Route {
  const { route: path, schema_name, plural, types, typeOf }: CatalogueTable = CATALOGUE_TABLES[list];
  const entry = z.strictObject({ id: z.string(), description: z.string(), type: z.enum(types) });
  const paged = new PagedList(list, ANY_KEYS);
  return route({
    method: "GET",
    path,
    operation: `list_${list}`,
    summary: `${plural} that the operator declares.`,
    query: z.object(paged.query),
    answers: {
      200: {
        description: "In the order declared.",
        content: {
          "application/json": z.strictObject({
            [list]: z.array(entry.meta({ id: schema_name, description: ENTRY })),
            next_cursor: nextCursor,
          }),
        },
      },
    },
    handler({ query, services: { config } }) {
      const entries: readonly { id: string; description: string }[] = config[list];
      const { items, next_cursor } = paged.page(entries, { ...query, keyOf: ({ id }) => id });
      const shown = items.map((item) => ({
        id: item.id,
        description: item.description,
        type: typeOf(item),
      }));
      return json(200, { [list]: shown, next_cursor });
    },
  });
}

/** A route for each list. */
export const CATALOGUE_ROUTES: readonly Route[] = CATALOGUE_LISTS.map(routeOf);
