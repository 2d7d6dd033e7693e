import { testPlaces } from "./axe";
import { places } from "./places/chat";

testPlaces(places);
