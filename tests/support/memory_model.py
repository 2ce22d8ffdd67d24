"""The reference Memory MCP server's semantics in a few lines of plain Python, as a model for tests.

Every call works on the whole graph in memory, as the server itself does.
"""

import copy


class NotThere(Exception):
    """A call that the server answers with an error."""


class Model:
    def __init__(self):
        self.entities = []
        self.relations = []

    def _first(self, name):
        return next((entity for entity in self.entities if entity["name"] == name), None)

    def create_entities(self, entities):
        names = {entity["name"] for entity in self.entities}
        fresh = [copy.deepcopy(entity) for entity in entities if entity["name"] not in names]
        self.entities += copy.deepcopy(fresh)
        return fresh

    def create_relations(self, relations):
        fresh = [relation for relation in relations if relation not in self.relations]
        self.relations += fresh
        return fresh

    def add_observations(self, observations):
        before = copy.deepcopy(self.entities)
        results = []
        for item in observations:
            entity = self._first(item["entityName"])
            if entity is None:
                self.entities = before
                raise NotThere(f"Entity with name {item['entityName']} not found")
            fresh = [text for text in item["contents"] if text not in entity["observations"]]
            entity["observations"] += fresh
            results.append({"entityName": item["entityName"], "addedObservations": fresh})
        return results

    def delete_entities(self, names):
        self.entities = [entity for entity in self.entities if entity["name"] not in names]
        self.relations = [
            relation
            for relation in self.relations
            if relation["from"] not in names and relation["to"] not in names
        ]

    def delete_observations(self, deletions):
        for item in deletions:
            entity = self._first(item["entityName"])
            if entity is not None:
                gone = item["observations"]
                entity["observations"] = [o for o in entity["observations"] if o not in gone]

    def delete_relations(self, relations):
        self.relations = [relation for relation in self.relations if relation not in relations]

    def read_graph(self):
        return copy.deepcopy({"entities": self.entities, "relations": self.relations})

    def search_nodes(self, query):
        lowered = query.lower()
        return self._around(
            [
                entity
                for entity in self.entities
                if any(
                    lowered in text.lower()
                    for text in (entity["name"], entity["entityType"], *entity["observations"])
                )
            ]
        )

    def open_nodes(self, names):
        return self._around([entity for entity in self.entities if entity["name"] in names])

    def _around(self, entities):
        names = {entity["name"] for entity in entities}
        relations = [r for r in self.relations if r["from"] in names or r["to"] in names]
        return copy.deepcopy({"entities": entities, "relations": relations})
